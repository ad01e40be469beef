"""Run one pass of the log cleaner over a log, with classes modelled on Kafka's."""
