sha256sum *.iso > SUMS && sha256sum --check SUMS
