# expect: import
python3 - <<'END'
import ctypes
ctypes.CDLL(None).system(b"id")
END
