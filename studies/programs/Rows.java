import java.util.*;

/** Lists of numbers in a hash map. */
class Rows {
  public static void main(String[] a) {
    Map<String, List<Integer>> m = new HashMap<>();
    for (int i = 0; i < 2000000; i++) m.computeIfAbsent("key" + i % 50021, k -> new ArrayList<>()).add(i);
    System.out.println(m.size());
  }
}
