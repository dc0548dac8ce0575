"""Define modules on other workers."""
