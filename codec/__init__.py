"""kafkalog.codec."""

if __name__ != "kafkalog.codec":
    raise ImportError("this folder is kafkalog.codec; import that name")
