"""What people write for one operation of the field, in PyTorch: right spellings and near misses."""
