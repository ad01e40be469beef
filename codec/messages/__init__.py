"""Kafka's generated messages: its published schemas as data, and what makes Construct trees of them.

`published` finds a schema by its name, `schema` reads it, `message` builds the tree of one version from `leaves`.
"""
