"""Producers and transactions: what `__transaction_state` and the logs say of them."""
