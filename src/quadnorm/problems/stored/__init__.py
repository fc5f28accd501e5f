"""Problems whose samples are files: a user's own, and published sets."""
