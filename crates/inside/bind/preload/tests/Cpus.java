/** Prints the number of CPUs that the virtual machine finds. */
class Cpus {
    public static void main(String[] arguments) {
        System.out.println(Runtime.getRuntime().availableProcessors());
    }
}
