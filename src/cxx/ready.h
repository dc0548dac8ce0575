// Makes the library ready when a program that includes this is loaded, so that programs in C++ need not call load().
#pragma once

#include "cxx/load.h"

namespace facula {

#ifndef FACULA_IN_LIBRARY  // whose own variables may not be there yet when this one is made
inline const bool kLoaded = load();
#endif

}  // namespace facula
