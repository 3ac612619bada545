// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/json.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

struct File {
  std::string name;
  std::uint64_t size_bytes{};
  friend auto operator==(File const&, File const&) -> bool = default;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(name), CEREAL_NVP(size_bytes));
  }
};

enum class Colour { red, green };
constexpr auto enum_names(Colour /*any*/) { return std::array<std::string_view, 2>{"red", "green"}; }

struct Paint {
  Colour colour{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(colour));
  }
};

struct Record {
  std::int8_t version{};
  bool complete{};
  double seconds{};
  float rate{};
  std::vector<File> files;
  std::map<std::string, std::string> metadata;
  std::optional<File> best;
  Metrics metrics;
  friend auto operator==(Record const&, Record const&) -> bool = default;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(version), CEREAL_NVP(complete), CEREAL_NVP(seconds), CEREAL_NVP(rate));
    a(CEREAL_NVP(files), CEREAL_NVP(metadata), CEREAL_NVP(best), CEREAL_NVP(metrics));
  }
};

auto full_record() -> Record {
  return {-1,
          true,
          0.1,
          0.1F,
          {{"model.pt", 18446744073709551615U}, {"opt", 0}},
          {{"epoch", "4"}, {"", "\n"}},
          File{"best", 1},
          {{"loss", 0.5}, {"epoch", std::int64_t{2}}, {"done", true}, {"host", "n"}}};
}

auto line_of(MetricValue value) -> std::string { return to_json(Metrics{{"m", std::move(value)}}); }

auto value_of(std::string const& json) -> MetricValue { return metrics_from_json(R"({"m": )" + json + "}").at("m"); }

auto refusal(std::string_view text) -> std::string {
  return thrown_error([&] { (void)metrics_from_json(text, "line 3"); });
}

auto record_refusal(std::string const& text) -> std::string {
  return thrown_error([&] { (void)read_json<Record>(text, "record.json"); });
}

/// The full record with one piece of its text replaced.
auto changed(std::string const& from, std::string const& to) -> std::string {
  auto text = write_json(full_record());
  auto const place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

}  // namespace

TEST_CASE("metrics become one line, in their order") {
  CHECK(to_json({{"loss", 0.5}, {"epoch", std::int64_t{2}}, {"done", true}, {"host", "a"}}) ==
        R"({"loss": 0.5, "epoch": 2, "done": true, "host": "a"})");
  CHECK(to_json(Metrics{}) == "{}");
}

TEST_CASE("an integer and a whole double are different and stay so") {
  CHECK(line_of(std::int64_t{1}) == R"({"m": 1})");
  CHECK(line_of(1.0) == R"({"m": 1.0})");
  CHECK(value_of("1") == MetricValue{std::int64_t{1}});
  CHECK(value_of("1.0") == MetricValue{1.0});
  CHECK(value_of("1e0") == MetricValue{1.0});
  CHECK(value_of("1e22") == MetricValue{1e22});
}

TEST_CASE("doubles are written as short as they read back") {
  CHECK(line_of(0.1) == R"({"m": 0.1})");
  CHECK(line_of(1e300) == R"({"m": 1e+300})");
  CHECK(line_of(5e-324) == R"({"m": 5e-324})");
}

TEST_CASE("every finite double reads back with the same bits") {
  std::vector<double> doubles{0.0, -0.0, 0.1, 1.0 / 3.0, 9007199254740993.0, 1e22, 1e23, 123456789012345678.0};
  for (auto const d : {std::numeric_limits<double>::min(), std::numeric_limits<double>::denorm_min(),
                       std::numeric_limits<double>::max(), std::numeric_limits<double>::epsilon()}) {
    doubles.insert(doubles.end(), {d, -d, std::nextafter(d, 1.0)});
  }
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (int i = 0; i < 20'000; ++i) doubles.push_back(std::bit_cast<double>(random()));
  for (auto const d : doubles) {
    if (!std::isfinite(d)) continue;
    auto const back = std::get<double>(metrics_from_json(line_of(d)).at("m"));
    CAPTURE(line_of(d));
    REQUIRE(std::bit_cast<std::uint64_t>(back) == std::bit_cast<std::uint64_t>(d));
  }
}

TEST_CASE("integers read back to the ends of their range") {
  for (auto const i : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::int64_t{0},
                       std::numeric_limits<std::int64_t>::max()}) {
    CHECK(metrics_from_json(line_of(i)).at("m") == MetricValue{i});
  }
}

TEST_CASE("NaN and the infinities are strings in the text and doubles again behind it") {
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(line_of(infinity) == R"({"m": "Infinity"})");
  CHECK(line_of(-infinity) == R"({"m": "-Infinity"})");
  CHECK(line_of(std::nan("")) == R"({"m": "NaN"})");
  CHECK(line_of(-std::nan("")) == R"({"m": "NaN"})");
  CHECK(value_of(R"("Infinity")") == MetricValue{infinity});
  CHECK(value_of(R"("-Infinity")") == MetricValue{-infinity});
  CHECK(std::isnan(std::get<double>(value_of(R"("NaN")"))));
  CHECK(value_of(R"("nan")") == MetricValue{"nan"});
}

TEST_CASE("control characters, quotes and backslashes are escaped, and the text reads back") {
  std::string every;
  for (int c = 0; c < 128; ++c) every += static_cast<char>(c);
  auto const line = to_json({{every, every}});
  for (auto const c : line) CHECK(static_cast<unsigned char>(c) >= 0x20);
  CHECK(line.find("\\u0000\\u0001") != std::string::npos);
  CHECK(line.find("\\u001f !\\\"#") != std::string::npos);
  CHECK(line.find("[\\\\]") != std::string::npos);
  CHECK(metrics_from_json(line) == Metrics{{every, every}});
}

TEST_CASE("UTF-8 passes as it is, and bytes that are not become U+FFFD") {
  CHECK(line_of("\xC3\xB6\xF0\x9F\x98\x80") == "{\"m\": \"\xC3\xB6\xF0\x9F\x98\x80\"}");
  CHECK(line_of("a\xFFz") == "{\"m\": \"a\xEF\xBF\xBDz\"}");
  CHECK(value_of(R"("\u00f6\ud83d\ude00")") == MetricValue{"\xC3\xB6\xF0\x9F\x98\x80"});
}

TEST_CASE("metrics are read from a flat object only") {
  CHECK(refusal(R"({"a": {"b": 1}})") ==
        "invalid_data: reading line 3: 'a' must be a number of 64 bits, text, true or false (got an object of 1)");
  CHECK(refusal(R"({"a": [1, 2]})").find("'a' must be a number of 64 bits, text, true or false (got an array of 2)") !=
        std::string::npos);
  CHECK(refusal(R"({"a": null})").find("(got null)") != std::string::npos);
  CHECK(refusal("[]") == "invalid_data: reading line 3: it must be an object (got an array of 0)");
  CHECK(refusal("5").find("it must be an object (got 5)") != std::string::npos);
}

TEST_CASE("text that is not JSON is refused with what is wrong and where") {
  auto const refused = [](std::string_view text, std::string const& problem, int byte) {
    CAPTURE(text);
    CHECK(refusal(text) ==
          "invalid_data: reading line 3: is not JSON: " + problem + " (at byte " + std::to_string(byte) + ")");
  };
  refused("", "a value is missing", 0);
  refused("{", "a name in quotes is missing", 1);
  refused("{a: 1}", "a name in quotes is missing", 1);
  refused("{'a': 1}", "a name in quotes is missing", 1);
  refused(R"({"a": 1,})", "a name in quotes is missing", 8);
  refused(R"({"a" 1})", "a colon is missing", 5);
  refused(R"({"a": 1)", "a comma or } is missing", 7);
  refused(R"({"a": 01})", "a comma or } is missing", 7);
  refused("[1 2]", "a comma or ] is missing", 3);
  refused(R"({"a": 1} x)", "something follows its end", 9);
  refused("{}{}", "something follows its end", 2);
  refused({"{}\0", 3}, "something follows its end", 2);
  refused("{\"a\": NaN}", "a value is missing", 6);
  refused("{\"a\": nul}", "a value is missing", 6);
  refused("{\"a\": -}", "a value is missing", 7);
  refused("{\"a\": .5}", "a value is missing", 6);
  refused("// x\n{}", "a value is missing", 0);
  refused("\xEF\xBB\xBF{}", "a value is missing", 0);
  refused("{\"a\": 1.}", "a digit is missing after the point", 8);
  refused("{\"a\": 1e+}", "a digit is missing in the exponent", 9);
  refused("{\"a\": 1e999}", "a number is out of range", 11);
  refused("{\"a\": 18446744073709551616}", "a number is out of range", 26);
  refused("{\"a\": -9223372036854775809}", "a number is out of range", 26);
  refused(R"({"a)", "a closing quote is missing", 3);
  refused("{\"a\": \"\xFF\"}", "a byte is not UTF-8", 7);
  refused("{\"a\": \"\n\"}", "a control character is not escaped", 7);
  refused({"{\"a\": \"\0\"}", 10}, "a control character is not escaped", 7);
  refused(R"({"a": "\x"})", "an escape is unknown", 8);
  refused(R"({"a": "\u12"})", "\\u needs four hexadecimal digits", 9);
  refused(R"({"a": "\u-123"})", "\\u needs four hexadecimal digits", 9);
  refused(R"({"a": "\ud800"})", "half a surrogate pair is missing", 13);
  refused(R"({"a": "\udc00"})", "half a surrogate pair is missing", 13);
  refused(R"({"a": "\ud800\u0041"})", "half a surrogate pair is missing", 19);
}

TEST_CASE("every escape of JSON is understood") {
  CHECK(value_of(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00")") ==
        MetricValue{"\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"});
}

TEST_CASE("numbers are read in every form that JSON has") {
  CHECK(value_of("-0") == MetricValue{std::int64_t{0}});
  CHECK(value_of("-12.5e-1") == MetricValue{-1.25});
  CHECK(value_of("1E+2") == MetricValue{100.0});
  CHECK(value_of("0.0e0") == MetricValue{0.0});
}

TEST_CASE("white space around the object is no part of it") { CHECK(metrics_from_json(" \t\r\n{ }\n").empty()); }

TEST_CASE("a metric that is there twice is refused with its name") {
  CHECK(refusal(R"({"a": 1, "a": 1})") == "invalid_data: reading line 3: field 'a' appears twice");
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "\"" + std::to_string(i % 1999) + "\": 0, ";
  CHECK(refusal("{" + many + "\"last\": 0}") == "invalid_data: reading line 3: field '0' appears twice");
}

TEST_CASE("an integer of more than 64 signed bits is refused and not rounded") {
  CHECK(refusal(R"({"a": 9223372036854775808})").find("'a' must be a number of 64 bits") != std::string::npos);
}

TEST_CASE("more metrics than a report may have are refused") {
  Metrics metrics;
  for (std::size_t i = 0; i < max_metrics; ++i) metrics.set(std::to_string(i), 0.0);
  CHECK(metrics_from_json(to_json(metrics)) == metrics);
  metrics.set("one more", 0.0);
  CHECK(refusal(to_json(metrics)) ==
        "invalid_data: reading line 3: it must be an object of at most 4096 metrics (got an object of 4097)");
}

TEST_CASE("a million brackets are refused and do not exhaust the stack") {
  CHECK(refusal(std::string(1'000'000, '[')).find("it is nested too deeply (at byte 65)") != std::string::npos);
  auto const nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(refusal(nested(65)).find("it must be an object") != std::string::npos);
  CHECK(refusal(nested(66)).find("it is nested too deeply") != std::string::npos);
}

TEST_CASE("a struct is written for people to read") {
  CHECK(write_json(full_record()) == R"({
  "version": -1,
  "complete": true,
  "seconds": 0.1,
  "rate": 0.10000000149011612,
  "files": [
    {
      "name": "model.pt",
      "size_bytes": 18446744073709551615
    },
    {
      "name": "opt",
      "size_bytes": 0
    }
  ],
  "metadata": {
    "": "\n",
    "epoch": "4"
  },
  "best": {
    "name": "best",
    "size_bytes": 1
  },
  "metrics": {
    "loss": 0.5,
    "epoch": 2,
    "done": true,
    "host": "n"
  }
}
)");
  CHECK(write_json(Record{}).find("\"files\": [],\n  \"metadata\": {},\n  \"best\": null,\n  \"metrics\": {}\n}\n") !=
        std::string::npos);
}

TEST_CASE("a struct reads back as it was written") {
  CHECK(read_json<Record>(write_json(full_record())) == full_record());
  CHECK(read_json<Record>(write_json(Record{})) == Record{});
  CHECK(read_json<std::vector<File>>(write_json(full_record().files)) == full_record().files);
}

TEST_CASE("a NaN in a struct is valid JSON and reads back") {
  Record record;
  record.seconds = std::nan("");
  record.metrics = {{"loss", -std::numeric_limits<double>::infinity()}};
  auto const text = write_json(record);
  CHECK(text.find("\"seconds\": \"NaN\"") != std::string::npos);
  auto const back = read_json<Record>(text);
  CHECK(std::isnan(back.seconds));
  CHECK(back.metrics == record.metrics);
}

TEST_CASE("the fields of a struct may stand in any order, and an optional one may be missing") {
  auto const file = read_json<File>(R"({"size_bytes": 3, "name": "x"})");
  CHECK(file == File{"x", 3});
  auto const text = changed("  \"best\": {\n    \"name\": \"best\",\n    \"size_bytes\": 1\n  },\n", "");
  CHECK_FALSE(read_json<Record>(text).best.has_value());
}

TEST_CASE("a field that is missing, unknown or twice is refused with its place") {
  CHECK(record_refusal(changed("\"complete\": true,", "")) ==
        "invalid_data: reading record.json: field 'complete' is missing");
  CHECK(record_refusal(changed("\"complete\": true,", "\"complete\": true, \"other\": 1,")) ==
        "invalid_data: reading record.json: field 'other' is not known");
  CHECK(record_refusal(changed("\"complete\": true,", "\"complete\": true, \"complete\": true,")) ==
        "invalid_data: reading record.json: field 'complete' appears twice");
  CHECK(record_refusal(changed("\"name\": \"opt\",", "")) ==
        "invalid_data: reading record.json: field 'files[1].name' is missing");
  CHECK(record_refusal(changed("\"name\": \"opt\",", "\"name\": \"opt\", \"x\": null,")) ==
        "invalid_data: reading record.json: field 'files[1].x' is not known");
  CHECK(record_refusal(changed("\"epoch\": \"4\"", "\"epoch\": \"4\", \"epoch\": \"4\"")) ==
        "invalid_data: reading record.json: field 'metadata.epoch' appears twice");
}

TEST_CASE("a value of another type is refused with its place and what it is") {
  auto const refused = [](std::string const& from, std::string const& to, std::string const& expected) {
    CHECK(record_refusal(changed(from, to)) == "invalid_data: reading record.json: " + expected);
  };
  refused("\"version\": -1", "\"version\": 128", "'version' must be an integer from -128 to 127 (got 128)");
  refused("\"version\": -1", "\"version\": 1.0", "'version' must be an integer from -128 to 127 (got 1.0)");
  refused("\"complete\": true", "\"complete\": 1", "'complete' must be true or false (got 1)");
  refused("\"seconds\": 0.1", "\"seconds\": \"0.1\"", "'seconds' must be a number (got \"0.1\")");
  refused("\"name\": \"opt\"", "\"name\": false", "'files[1].name' must be text (got false)");
  refused("\"size_bytes\": 0", "\"size_bytes\": -1",
          "'files[1].size_bytes' must be an integer from 0 to 18446744073709551615 (got -1)");
  refused("\"epoch\": \"4\"", "\"epoch\": 4", "'metadata.epoch' must be text (got 4)");
  refused("\"epoch\": 2", "\"epoch\": null",
          "'metrics.epoch' must be a number of 64 bits, text, true or false (got null)");
  CHECK(record_refusal("[]") == "invalid_data: reading record.json: it must be an object (got an array of 0)");
  CHECK(thrown_error([] { (void)read_json<std::vector<File>>("{}"); }) ==
        "invalid_data: reading JSON: it must be an array (got an object of 0)");
}

TEST_CASE("an enumeration is written by its value's name, and another name or its number is refused") {
  auto const text = write_json(Paint{Colour::green});
  CHECK(text == "{\n  \"colour\": \"green\"\n}\n");
  CHECK(read_json<Paint>(text).colour == Colour::green);
  auto const refused = [](std::string_view json) {
    return thrown_error([&] { (void)read_json<Paint>(json, "paint.json"); });
  };
  check_contains(refused(R"({"colour": "blue"})"), "'colour' must be one of red, green (got \"blue\")");
  check_contains(refused(R"({"colour": 1})"), "'colour' must be one of red, green (got 1)");
}

TEST_CASE("text that is not UTF-8 is not written, since it would not read back") {
  CHECK(thrown_error([] {
          (void)write_json(File{"caf\xE9.pt", 1});
        }) ==
        "invalid_data: writing JSON: 'caf\xEF\xBF\xBD.pt' is not UTF-8; replace the bytes that are not by "
        "raytrain::to_utf8, or rename the file");
  Record record;
  record.metadata = {{"caf\xE9", ""}};
  CHECK(thrown_error([&] { (void)write_json(record); }).find("is not UTF-8") != std::string::npos);
}

TEST_CASE("any JSON is read as it stands, with names that repeat in their order") {
  auto const value = parse_json(R"({"b": [1, -2, 1.5, null], "a": true, "b": {}})");
  auto const* const members = value.get_if<JsonObject>();
  REQUIRE(members != nullptr);
  REQUIRE(members->size() == 3);
  CHECK(members->at(0).name == "b");
  CHECK(members->at(0).value.get_if<JsonArray>()->size() == 4);
  CHECK(members->at(2).name == "b");
  CHECK(members->at(2).value.get_if<JsonObject>()->empty());
  CHECK_THROWS_WITH_AS((void)parse_json("{} x", "a header"), doctest::Contains("reading a header: is not JSON"), Error);
}

TEST_CASE("a text in quotes is read back as the same text") {
  for (std::string const text : {"", "\"\\\n", "\xC3\xB6"}) {
    CHECK(*parse_json(json_string(text)).get_if<std::string>() == text);
  }
}
