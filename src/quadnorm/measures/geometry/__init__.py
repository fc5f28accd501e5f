"""Volumes that belong to the nodes of meshes and point clouds."""
