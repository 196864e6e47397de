"""The sandbox on a machine without server or database: what the command line runs scripts with."""
