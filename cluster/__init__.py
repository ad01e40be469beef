"""kafkalog.cluster."""

if __name__ != "kafkalog.cluster":
    raise ImportError("this folder is kafkalog.cluster; import that name")
