"""Rules of Kafka's that several rooms need: which value of a setting counts, Java's hashes, what is secret."""
