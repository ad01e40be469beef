"""What `kafkalog report` shows: everything that is known of log directories, on one page to share."""
