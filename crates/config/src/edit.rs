//! Changing `coracle.yaml` as text.
