"""Price lists of others: each reader gives the same rows, and one writer puts them into a person's prices.csv."""
