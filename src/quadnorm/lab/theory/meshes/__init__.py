"""What unstructured meshes do to a norm."""
