"""Generation: requests in, tokens out; scheduling of prefill chunks and decode batches."""
