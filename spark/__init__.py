"""kafkalog.spark."""

if __name__ != "kafkalog.spark":
    raise ImportError("this folder is kafkalog.spark; import that name")
