import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.spy.memcached.MemcachedClient;

/** What spymemcached and xmemcached do with a memcached at the port named: a line for each thing they find. */
public class Session {
    static void say(String what, Callable<Object> ask) {
        String text;
        try {
            text = String.valueOf(ask.call());
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            text = "error " + String.valueOf(cause.getMessage()).lines().findFirst().orElse("");
        }
        System.out.println(what + " " + (text.length() > 80 ? text.length() + " characters" : text));
    }

    static List<String> many(String name) {
        List<String> keys = new ArrayList<>();
        for (int number = 0; number < 41; number++) keys.add(name + "-many-" + number);
        return keys;
    }

    static void spy(InetSocketAddress address) throws Exception {
        MemcachedClient client = new MemcachedClient(address);
        say("set", () -> client.set("spy-a", 0, "one").get());
        say("get", () -> client.get("spy-a"));
        say("get", () -> client.get("spy-nothing"));
        say("add", () -> client.add("spy-a", 0, "x").get());
        say("add", () -> client.add("spy-b", 1000, "two").get());
        say("replace", () -> client.replace("spy-b", 0, "zwei").get());
        say("replace", () -> client.replace("spy-nothing", 0, "x").get());
        say("append", () -> client.append("spy-b", "!").get());
        say("prepend", () -> client.prepend("spy-b", "> ").get());
        say("get", () -> client.get("spy-b"));
        say("large", () -> client.set("spy-large", 0, new byte[900_000]).get());
        say("large", () -> ((byte[]) client.get("spy-large")).length);
        long unique = client.gets("spy-a").getCas();
        say("cas", () -> client.cas("spy-a", unique, "first"));
        say("cas", () -> client.cas("spy-a", unique, "second"));
        say("get", () -> client.get("spy-a"));
        for (String key : many("spy").subList(0, 40)) client.set(key, 0, key).get();
        say("many", () -> client.getBulk(many("spy")).size());
        new TreeMap<>(client.getBulk(many("spy"))).forEach((key, value) -> System.out.println("  " + key + " " + value));
        say("set", () -> client.set("spy-number", 0, "10").get());
        say("incr", () -> client.incr("spy-number", 90));
        say("decr", () -> client.decr("spy-number", 1));
        say("incr", () -> client.incr("spy-nothing", 1));
        say("incr", () -> client.incr("spy-fresh", 1, 5));
        say("touch", () -> client.touch("spy-b", 1000).get());
        say("delete", () -> client.delete("spy-b").get());
        say("delete", () -> client.delete("spy-b").get());
        say("get", () -> client.get("spy-b"));
        client.shutdown();
    }

    static void x(InetSocketAddress address) throws Exception {
        var client = new XMemcachedClientBuilder(List.of(address)).build();
        say("set", () -> client.set("x-a", 0, "one"));
        say("get", () -> client.get("x-a"));
        say("get", () -> client.get("x-nothing"));
        say("add", () -> client.add("x-a", 0, "x"));
        say("add", () -> client.add("x-b", 1000, "two"));
        say("replace", () -> client.replace("x-b", 0, "zwei"));
        say("append", () -> client.append("x-b", "!"));
        say("prepend", () -> client.prepend("x-b", "> "));
        say("get", () -> client.get("x-b"));
        say("large", () -> client.set("x-large", 0, new byte[900_000]));
        say("large", () -> ((byte[]) client.get("x-large")).length);
        long unique = client.gets("x-a").getCas();
        say("cas", () -> client.cas("x-a", 0, "first", unique));
        say("cas", () -> client.cas("x-a", 0, "second", unique));
        say("get", () -> client.get("x-a"));
        for (String key : many("x").subList(0, 40)) client.set(key, 0, key);
        new TreeMap<String, Object>(client.get(many("x"))).forEach((key, value) -> System.out.println("  " + key + " " + value));
        say("incr", () -> client.incr("x-number", 90, 10));
        say("incr", () -> client.incr("x-number", 90));
        say("decr", () -> client.decr("x-number", 1));
        say("touch", () -> client.touch("x-b", 1000));
        say("delete", () -> client.delete("x-b"));
        say("delete", () -> client.delete("x-b"));
        say("get", () -> client.get("x-b"));
        client.shutdown();
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("").setLevel(java.util.logging.Level.OFF);
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        spy(address);
        x(address);
        System.exit(0);
    }
}
