"""Every check there is, read-only, each with a finding."""
