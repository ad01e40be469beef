"""kafkalog.log."""

if __name__ != "kafkalog.log":
    raise ImportError("this folder is kafkalog.log; import that name")
