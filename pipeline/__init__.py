"""The DVC stages of the reproduction, one thin module each."""
