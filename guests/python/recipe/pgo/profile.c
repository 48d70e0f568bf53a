/* Writes the counters of an instrumented guest to a file.
 *
 * The profile runtime (LLVM's, as carried by the crate minicov) has a writer for a
 * buffer only, and that one drops the recorded values of indirect calls, which are the
 * very thing this training is for. So here is a writer for a file that keeps them. */
#include <stdio.h>
#include <stdlib.h>

#include "InstrProfiling.h"
#include "InstrProfilingInternal.h"

/* Instrumented objects refer to this to make sure that a runtime is linked. */
int __llvm_profile_runtime;

/* The runtime asks its user for memory. */
void *minicov_alloc_zeroed(size_t size, size_t align) { return calloc(1, size); }
void minicov_dealloc(void *memory, size_t size, size_t align) { free(memory); }

static uint32_t write_to_file(ProfDataWriter *writer, ProfDataIOVec *vectors, uint32_t count) {
    FILE *file = writer->WriterCtx;
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = vectors[i].ElmSize * vectors[i].NumElm;
        if (vectors[i].Data != NULL) {
            if (fwrite(vectors[i].Data, 1, bytes, file) != bytes) return 1;
        } else if (vectors[i].UseZeroPadding) {
            while (bytes-- > 0) {
                if (fputc(0, file) == EOF) return 1;
            }
        } else if (fseek(file, (long)bytes, SEEK_CUR) != 0) {
            return 1;
        }
    }
    return 0;
}

int belljar_write_profile(const char *path) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return -1;
    ProfDataWriter writer = {write_to_file, file};
    int status = lprofWriteData(&writer, lprofGetVPDataReader(), 0);
    return fclose(file) == 0 ? status : -1;
}
