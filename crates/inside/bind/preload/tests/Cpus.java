/** How many CPUs the virtual machine believes it has. */
class Cpus {
    public static void main(String[] arguments) {
        System.out.println(Runtime.getRuntime().availableProcessors());
    }
}
