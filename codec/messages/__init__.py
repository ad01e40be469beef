"""Kafka's generated messages: its published schemas as data, and their conversion to Construct trees. `published` finds
a schema by name, `schema` parses it, and `message` builds the tree of one version from `leaves`.
"""
