"""What commands share: options, output, errors, files."""
