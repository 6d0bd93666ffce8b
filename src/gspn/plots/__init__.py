"""Every figure: functions from numbers to pictures. What the numbers mean and where they come from is not said here."""
