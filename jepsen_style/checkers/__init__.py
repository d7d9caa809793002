"""Checkers: given a history, was a promise broken? Each says valid, invalid or unknown."""
