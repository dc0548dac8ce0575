"""Where PyTorch keeps what its own tests are written with; tests of extensions take some of it from here."""
