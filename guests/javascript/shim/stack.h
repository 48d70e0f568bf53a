/* For QuickJS: recursion in C that its stack check can see. recipe/patch_quickjs.py says where. */
#ifndef BELLJAR_STACK_H
#define BELLJAR_STACK_H

/* Takes some of the stack in linear memory. The empty instruction uses its address; else
 * the compiler would see that it is for nothing. */
#define BELLJAR_TAKE_STACK(bytes) \
    char belljar_taken[bytes];    \
    __asm__ volatile("" : : "r"(belljar_taken) : "memory")

#endif
