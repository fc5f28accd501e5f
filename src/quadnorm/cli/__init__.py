"""The command line: ``commands`` holds thin commands, which import what they need when they are called."""
