"""Write several copies as one."""
