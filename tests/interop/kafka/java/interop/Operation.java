package interop;

/** One thing the harness can be asked to do. */
interface Operation {
    Object run(Request request) throws Throwable;
}
