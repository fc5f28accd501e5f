"""Problems on random triangle meshes."""
