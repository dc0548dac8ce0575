# A build for 64-bit ARM on another processor, with Debian's cross compiler; .ci/aarch64 makes the system and uses this.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_STRIP aarch64-linux-gnu-strip)

# The target's system: what it runs with (the loader, the C library, Python) and Python's headers, which name others in the
# folder above theirs. The compiler has its own copy of the rest.
set(FACULA_SYSTEM "" CACHE PATH "Root folder of the target's system")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FACULA_SYSTEM)
set(CMAKE_CXX_FLAGS_INIT "-idirafter ${FACULA_SYSTEM}/usr/include")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu cortex-a57 -L ${FACULA_SYSTEM})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
