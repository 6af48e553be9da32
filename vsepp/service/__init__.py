"""A collection over HTTP: the REST interface and the page that uses it."""
