"""What happens: inputs, what actions send each other, what is told of memory."""
