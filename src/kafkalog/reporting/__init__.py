"""Build the page of `kafkalog report`: everything that is known of log directories, to share."""
