"""The CPU's instruction sets."""


def get_cpu_capability():
    """ "AVX512", "AVX2" or "DEFAULT"."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith(("flags", "Features"))), [])
    except OSError:
        flags = []
    if "avx512f" in flags:
        return "AVX512"
    return "AVX2" if "avx2" in flags else "DEFAULT"
