"""Commands that examine and check log directories without changing them."""
