# What C++ exceptions are thrown as: one tag for the whole program, with the address of the exception.
	.globl __cpp_exception
	.tagtype __cpp_exception i32
__cpp_exception:
