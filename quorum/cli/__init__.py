"""The quorum's commands of the command line."""
