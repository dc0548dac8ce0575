"""Define the binary records of a zip container for its reader and its writer."""

import struct

LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
END64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR64 = struct.Struct("<4sLQL")
U32 = 0xFFFFFFFF
U16 = 0xFFFF
