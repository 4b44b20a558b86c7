"""The console: options that commands share, and how they speak and end."""
