/^[0-9a-f]+-[0-9a-f]+ /{name=$6; if(name=="")name="anon"; if(name ~ /^.anon/) name="anon"; if(name~/liba.so/) name="LIB"; else if (name~/\/git|\/grep|\/perl|python/) name="PROG"; else if(name~/\.so|locale|gconv/) name="otherlibs"}
/^Rss:/{r[name]+=$2;t+=$2}/^Pss:/{p[name]+=$2;tp+=$2}/^Private_Dirty:/{d[name]+=$2;td+=$2}
END{for(n in r)if(r[n])printf "%s rss %d pss %d dirty %d; ",n,r[n],p[n],d[n];printf "TOTAL rss %d pss %d dirty %d\n",t,tp,td}
