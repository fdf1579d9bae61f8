#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
int main() {
  std::map<std::string, std::function<int(int)>> m{{"a", [](int i) { return i + 1; }}};
  std::unordered_map<std::string, std::regex> r{{"x", std::regex("[a-z]+(\\d*)")}};
  std::smatch found;
  std::string s = "abc12";
  std::cout << std::regex_match(s, found, r["x"]) << m["a"](1) << std::endl;
}
