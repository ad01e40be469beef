"""One file for each kind of question: from the fields of a request to those of its response."""
