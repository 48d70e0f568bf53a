/* Asked before C++ code that would throw for want of memory, which nobody could catch. */
#ifndef BELLJAR_ROOM_H
#define BELLJAR_ROOM_H

#include <stdlib.h>

static inline int belljar_has_room(size_t bytes) {
    /* volatile: compilers take it for granted that memory which is not used can be had. */
    void *volatile room = malloc(bytes);
    int found = room != NULL;
    free(room);
    return found;
}

#endif
