"""What layers see: texts in stated proportions, and the statistics of what they become."""
