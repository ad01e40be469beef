"""Request handlers, one file for each subject: from the fields of a request to those of its response."""
