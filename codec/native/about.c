/* Constants in the library from which its loader knows the sources and the declarations that it was built from. */
#include "kafkalog.h"

#ifndef SOURCES
#define SOURCES "unknown"
#endif

EXPORTED const char kafkalog_sources[] = SOURCES;

#define VALUE(name) name,
EXPORTED const int64_t kafkalog_constants[] = {CONSTANTS(VALUE)};
EXPORTED const int64_t kafkalog_constant_count = sizeof kafkalog_constants / sizeof kafkalog_constants[0];
