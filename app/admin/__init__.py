"""What operators of a deployment do: `rewind admin`."""
